"""Pure rules: identities, marks, patches, order, verdicts, reports. No I/O, no clock, no environment."""
