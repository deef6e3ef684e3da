/* Recall over the FTS5 index: comes with the next change. */
#include "recall.h"
