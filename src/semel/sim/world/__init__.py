"""What a history happens in.

scheduler, trace  simulated time; what happened, hashed
waiting           how long until what may happen at any moment
faults            the mix that a seed draws, every fault by its number, and the count of what bit
network           connections that break in every way that TCP's do
disk, inode       a file system that forgets what was not synced, sectors that are lost, bits that rot
process           a client process with its clock
fiber             blocking code in simulated time
history           what was promised and what was seen, by the workload's own names for its records
watchers          who is told what happens, subject by subject
surroundings      what every client needs of the world
"""
