"""The path of an upload: its bytes are read, it waits its turn, and a group is committed at once."""
