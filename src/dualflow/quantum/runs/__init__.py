"""Everything between an engine and a device: the laboratory with its account, the journal, budgets, mitigation."""
