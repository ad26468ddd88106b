"""OpenSSH as a subprocess: argv, sessions, shared connections, copies, tunnels, and what its failures mean."""
