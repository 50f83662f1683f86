// What the shared library exports: everything of these headers that is not inline, and nothing else.
#pragma once

#define MMAEMU_API __attribute__((visibility("default")))
