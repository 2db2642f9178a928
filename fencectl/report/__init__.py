"""Reports as text, JSON, YAML, Markdown, GitHub annotations and OpenMetrics. Reaches nothing that writes."""
