/* See recall.c. */
#ifndef SHP_RECALL_H
#define SHP_RECALL_H
#include "sqlite3.h"
#endif
