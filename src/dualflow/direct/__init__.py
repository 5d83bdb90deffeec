"""Problems solved directly: in one call, from points or small matrices, without a run of the driver's loop."""
