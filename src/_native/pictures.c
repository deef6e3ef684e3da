#include "pictures.h"

#include <stdlib.h>

shp_picture *shp_picture_new(int32_t n, int32_t n_embd, int has_places) {
    shp_picture *picture = calloc(1, sizeof *picture);
    if (!picture)
        return NULL;
    picture->n = n;
    picture->n_holders = 1;
    picture->embeddings = malloc((size_t)n * (size_t)n_embd * sizeof *picture->embeddings);
    if (has_places)
        picture->places = malloc(4 * (size_t)n * sizeof *picture->places);
    if (!picture->embeddings || (has_places && !picture->places) || shp_mutex_init(&picture->mutex) != 0) {
        free(picture->embeddings);
        free(picture->places);
        free(picture);
        return NULL;
    }
    return picture;
}

void shp_picture_hold(shp_picture *picture) {
    shp_mutex_lock(&picture->mutex);
    picture->n_holders++;
    shp_mutex_unlock(&picture->mutex);
}

void shp_picture_free(shp_picture *picture) {
    if (!picture)
        return;
    shp_mutex_lock(&picture->mutex);
    int is_held = --picture->n_holders > 0;
    shp_mutex_unlock(&picture->mutex);
    if (is_held)
        return;
    shp_mutex_destroy(&picture->mutex);
    free(picture->embeddings);
    free(picture->places);
    free(picture);
}

int32_t shp_picture_round(const int32_t *ids, int32_t n_ids, int32_t n) {
    if (n <= 0 || n >= n_ids || !shp_is_picture(ids[n]))
        return n;
    while (n > 0 && !shp_begins_picture(ids[n]))
        n--;
    return n;
}

int32_t shp_picture_positions(const int32_t *ids, int32_t n, int32_t *out) {
    int32_t next = 0;
    for (int32_t i = 0; i < n;) {
        if (!shp_begins_picture(ids[i])) {
            if (out)
                out[i] = next;
            next++;
            i++;
            continue;
        }
        int32_t begin = i, n_positions = i + 1 < n && !shp_begins_picture(ids[i + 1]) && shp_is_picture(ids[i + 1])
                                             ? ids[i + 1] & SHP_PICTURE_BITS
                                             : 1;
        do {
            int32_t place = i - begin < n_positions ? i - begin : n_positions - 1;
            if (out)
                out[i] = next + place;
            i++;
        } while (i < n && shp_is_picture(ids[i]) && !shp_begins_picture(ids[i]));
        next += i - begin < n_positions ? i - begin : n_positions;
    }
    return next;
}
