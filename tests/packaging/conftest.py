"""Programs that tests run elsewhere."""

# Collecting them would run them here.
collect_ignore_glob = ["device_path.py", "promises/*.py"]
