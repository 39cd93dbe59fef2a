"""What many queries over one join or aggregate share: a thousand cost little more than one."""
