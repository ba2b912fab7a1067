"""Keep Weft safe beside other users of a machine: nothing is trusted that somebody else may have written."""
