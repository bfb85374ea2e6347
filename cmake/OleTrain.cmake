# The rooms that exist for training (device, net, data, train): their sources, added to ole_objects,
# and the libraries they use, each found here and reported by ole_part().

# ---- net ----------------------------------------------------------------------------------------

target_sources(ole_objects PRIVATE
    src/net/memory.c
    src/net/params.c
    src/net/plan.c)
