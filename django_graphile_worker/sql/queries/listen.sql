-- Hear of new jobs, and of schema changes. Returns nothing; lasts as long as the connection.
listen "jobs:insert"
