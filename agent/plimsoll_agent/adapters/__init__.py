"""The only modules that talk to the world; each call has its deadline, each error is translated here."""
