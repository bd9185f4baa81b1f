"""layout.py LIB - print what tests/helpers/proto_layout.c prints, from the structs of torch_child.py in the folder LIB."""
import ctypes
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import torch_child as child

print("protocol", child.MAGIC, child.VERSION, child.MAX_REPEATS, child.ARENA_MAX)
for name, struct in (("msg", child.Msg), ("tensor", child.ArenaTensor), ("attr", child.ArenaAttr), ("launch", child.ArenaLaunch), ("arena", child.ArenaHead)):
    for field, kind in struct._fields_:
        print(name, field.replace("inputs", "in"), getattr(struct, field).offset, ctypes.sizeof(kind))
    print(name, ctypes.sizeof(struct))
