/* proto_layout.c - print where the fields of the child protocol's structs lie. Test 046 compares
 * the lines with kernels/providers/torch_child.py, which writes the same structs in Python.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One line a field: "struct field offset size"; one line a struct: "struct size". */
#include <stddef.h>
#include <stdio.h>

#include "replayer/child_protocol.h"

#define FIELD(s, f) printf("%s %s %zu %zu\n", #s, #f, offsetof(struct td_proto_##s, f), sizeof ((struct td_proto_##s *)0)->f)
#define END(s) printf("%s %zu\n", #s, sizeof(struct td_proto_##s))

#define ATTR(f) printf("attr %s %zu %zu\n", #f, offsetof(struct td_attr, f), sizeof ((struct td_attr *)0)->f)
#define LAUNCH(f) printf("launch %s %zu %zu\n", #f, offsetof(struct td_op_launch, f), sizeof ((struct td_op_launch *)0)->f)

static void messages(void)
{
    FIELD(msg, magic); FIELD(msg, version); FIELD(msg, type); FIELD(msg, seq); FIELD(msg, status); FIELD(msg, flags);
    FIELD(msg, repeats); FIELD(msg, iterations); FIELD(msg, size); FIELD(msg, ns); FIELD(msg, provider); FIELD(msg, rounding);
    FIELD(msg, text);
    END(msg);
}

static void arenas(void)
{
    FIELD(tensor, role); FIELD(tensor, dtype); FIELD(tensor, ndim); FIELD(tensor, shape); FIELD(tensor, strides);
    FIELD(tensor, offset); FIELD(tensor, size_bytes); FIELD(tensor, align); FIELD(tensor, content);
    END(tensor);
    ATTR(name); ATTR(value);
    printf("attr %zu\n", sizeof(struct td_attr));
    LAUNCH(rows); LAUNCH(grid); LAUNCH(block); LAUNCH(shared_bytes); LAUNCH(flags); LAUNCH(symbol);
    printf("launch %zu\n", sizeof(struct td_op_launch));
    FIELD(arena, magic); FIELD(arena, version); FIELD(arena, stage); FIELD(arena, repeat); FIELD(arena, progress);
    FIELD(arena, reached); FIELD(arena, reserved); FIELD(arena, fault); FIELD(arena, kind); FIELD(arena, act_rounding); FIELD(arena, n_attrs); FIELD(arena, n_in);
    FIELD(arena, attrs); FIELD(arena, in); FIELD(arena, out); FIELD(arena, symbol); FIELD(arena, layout);
    FIELD(arena, n_launches); FIELD(arena, launches);
    END(arena);
}

int main(void)
{
    printf("protocol %u %d %d %llu\n", TD_PROTO_MAGIC, TD_PROTO_VERSION, TD_PROTO_MAX_REPEATS, (unsigned long long)TD_PROTO_ARENA_MAX);
    messages();
    arenas();
    return 0;
}
