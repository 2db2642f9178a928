"""One module per verb: options to request, run, render. No rules live here."""
