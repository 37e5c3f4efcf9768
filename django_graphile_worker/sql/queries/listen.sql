-- Hear of new jobs. Locks nothing. Returns nothing; lasts as long as the connection.
listen "jobs:insert"
