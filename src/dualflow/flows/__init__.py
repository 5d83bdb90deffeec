"""Vector fields on the dual variables; `dualflow.integrate` has the methods that integrate them."""
