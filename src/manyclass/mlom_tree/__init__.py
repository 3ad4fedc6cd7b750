"""MLOM tree (2018): an online tree that balances classes by the median of their mean margins."""
