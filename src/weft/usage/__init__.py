"""How MPI was used: collectives, messages, requests, resources, arguments, one-sided. One module, one `find`, each."""
