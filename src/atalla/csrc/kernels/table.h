// The name of the table of an instruction set's kernels, which NAME makes.
#pragma once

#define JOINED(A, B) A##B
#define TABLE(NAME) JOINED(at_kernels_, NAME)
#define TEXT(NAME) #NAME
#define QUOTED(NAME) TEXT(NAME)
