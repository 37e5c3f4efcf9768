-- Act as another role until the transaction ends or this is called again; returns whom we acted as.
select current_setting('role'), set_config('role', %(role)s::text, true)
