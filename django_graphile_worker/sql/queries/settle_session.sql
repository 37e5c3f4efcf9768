-- Put right, for the rest of the transaction or of the session, what a role, a database or the
-- server has set in a way that our statements do not bear. Locks nothing. Returns what was changed.
--
-- They are made for READ COMMITTED: in a serializable transaction the worker's own bookkeeping would
-- end in 40001, and make callers' transactions end in it. They bound themselves; a timeout that is
-- meant for an application's queries would end one that is on its way, again and again. A minute is
-- left for what nobody has thought of. And a null in an array is to be one: a retry's own pause is
-- said so. A setting that this server does not know is passed over.
select set_config(wish.name, wish.value, %(local)s)
from (
  values
    ('default_transaction_isolation', 'read committed', ''),
    ('default_transaction_read_only', 'off', ''),
    ('statement_timeout', '60s', '0'),
    ('transaction_timeout', '60s', '0'),
    ('idle_in_transaction_session_timeout', '60s', '0'),
    ('idle_session_timeout', '0', ''),
    ('array_nulls', 'on', '')
) as wish (name, value, harmless)
where current_setting(wish.name, true) not in (wish.value, wish.harmless)
