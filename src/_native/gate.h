/* Who decodes first: runs of one engine hold the gate, engines in the background wait until nobody does, or are let in for a moment. */
#ifndef SHP_GATE_H
#define SHP_GATE_H

typedef struct shp_gate shp_gate;

shp_gate *shp_gate_new(void);
void shp_gate_free(shp_gate *gate);

void shp_gate_enter(shp_gate *gate);               /* a run that goes first begins; they may be several */
void shp_gate_leave(shp_gate *gate);
int shp_gate_is_taken(const shp_gate *gate);       /* one load, for use between graph nodes */
int shp_gate_wait(shp_gate *gate, int timeout_ms); /* 1: nobody holds it any more */

int shp_gate_ask(shp_gate *gate, int timeout_ms);  /* 1: the holders stand still until shp_gate_give_back */
void shp_gate_give_back(shp_gate *gate);
void shp_gate_let_in(shp_gate *gate);              /* the holders' thread, between two steps; free if nobody asks */

#endif
