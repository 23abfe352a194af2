"""Sizes that many places share: of what is worked on at a time, and of samples.

Blocks change the order of sums, time and memory alone, and these little.
"""

# Rows, or columns of a matrix, that a thread takes at a time: what it makes of them
# stays in its cache
TILE_ROWS = 512
# Numbers that stay in the cache of a core
TILE_ENTRIES = 1 << 16
# Rows whose features are held, or that are encoded, at a time
BLOCK_ROWS = 1 << 12
# Rows of which little is held, or that a device or another process takes at a time
LARGE_BLOCK_ROWS = 1 << 14
# Rows that are read at a time
PART_ROWS = 1 << 16
# Numbers that are evaluated at a time, and those of rows that are held for later use
BLOCK_ENTRIES = 1 << 22
HELD_ENTRIES = 1 << 24
# Bytes of text, of a part of a table, and of the features of all rows
TEXT_BYTES = 1 << 20
PART_BYTES = 16 << 20
STORED_BYTES = 1 << 30

# Rows that tell about all others, as the range of a column; and of what is searched for
# or learned
SAMPLE_ROWS = 1 << 12
LARGE_SAMPLE_ROWS = 1 << 14
