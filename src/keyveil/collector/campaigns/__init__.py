"""All that a collector does besides taking uploads, without HTTP: campaigns, rounds, tokens, results."""
