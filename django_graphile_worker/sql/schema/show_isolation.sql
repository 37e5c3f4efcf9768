-- Tell the isolation of this transaction; takes no snapshot.
show transaction_isolation
