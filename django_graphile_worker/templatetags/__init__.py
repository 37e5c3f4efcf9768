"""Tags for the templates of the admin."""
