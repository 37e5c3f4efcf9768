-- Put on a role for as long as the connection lasts. Locks nothing. Returns the role.
select set_config('role', %(role)s, false)
