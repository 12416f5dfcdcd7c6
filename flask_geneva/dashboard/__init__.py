"""What people and monitors look at over HTTP; closed until the application opens it."""
