"""A program that has not come on for so long says where its ranks are."""
