"""Floor 5: estimators in scikit-learn's manner."""
