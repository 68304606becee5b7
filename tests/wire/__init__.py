"""A local server that speaks the providers' wire formats over real sockets."""
