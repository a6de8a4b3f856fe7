//! Replacement policies, one file each, over intrusive index-linked lists.
