"""What the analyses share: classes of calls, decoded columns, sizes, and the words of findings."""
