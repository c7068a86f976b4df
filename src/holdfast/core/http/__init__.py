"""HTTP below both HTTP stacks: the server process, loopback addresses, header values."""
