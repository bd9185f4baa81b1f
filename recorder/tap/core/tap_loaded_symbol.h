/* tap_loaded_symbol.h - find a function in the loaded libraries without memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_LOADED_SYMBOL_H
#define TD_RECORDER_TAP_CORE_TAP_LOADED_SYMBOL_H

/* The function `name` of the library that `caller` lies in, else of the first other loaded library
 * that defines it, but for every copy of the tap; NULL: none. For when dlopen() and dlsym() cannot
 * be asked: they allocate. Any thread; takes the dynamic linker's lock. */
__attribute__((visibility("hidden"))) void *tap_loaded_symbol(const char *name, const void *caller);

#endif
