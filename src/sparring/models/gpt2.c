/* The forward pass of a small GPT-2 over cached sequences, in float32 and one thread.

Every number is summed up in one order, which depends on nothing beside its own row: first to last
over the inner positions of a product, and over the positions that a query looks at. So a token has
the same bits whatever is computed beside it.

It is compiled for one shape: WIDTH; HEADS; RELU (1; or 0: GELU in the tanh form); EPSILON of the
normalisations.

Legend: C width, H heads, D width of a head, P positions of a row of the cache.
*/

#include <math.h>
#include <stdint.h>
#include <string.h>

#define C WIDTH
#define H HEADS
#define D (WIDTH / HEADS)
#if defined(__AVX512F__)
#define LANES 16
#define PANEL 4
#else
#define LANES 8
#define PANEL 2
#endif
#define ROWS 4 /* of a tile of a product */

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4)));
typedef float single;
typedef float quad __attribute__((vector_size(16), aligned(4)));
typedef int32_t whole __attribute__((vector_size(4 * LANES), aligned(4)));

typedef struct {
    const float *gain1, *shift1, *qkv, *qkv_bias, *out, *out_bias;
    const float *gain2, *shift2, *up, *up_bias, *down, *down_bias;
} Block;

/* ROWS rows of `wide` vectors of columns of a product: y [ROWS, m] = bias + x [ROWS, k] w [k, m],
   added to what y holds, if asked for; rows from `own` on are not written */
#define TILE(name, vector, most)                                                                   \
    static inline __attribute__((always_inline)) void name(                                        \
        int wide, int k, int m, const float *const *x, const float *w, const float *bias,          \
        float *y, int64_t own, int add)                                                            \
    {                                                                                              \
        const int64_t size = sizeof(vector) / sizeof(float);                                       \
        vector sum[ROWS][most];                                                                    \
        for (int r = 0; r < ROWS; r++)                                                             \
            for (int c = 0; c < wide; c++)                                                         \
                sum[r][c] = *(const vector *)(bias + c * size);                                    \
        for (int i = 0; i < k; i++)                                                                \
            for (int r = 0; r < ROWS; r++)                                                         \
                for (int c = 0; c < wide; c++)                                                     \
                    sum[r][c] += *(const vector *)(w + (int64_t)i * m + c * size) * x[r][i];       \
        for (int r = 0; r < ROWS && r < own; r++)                                                  \
            for (int c = 0; c < wide; c++) {                                                       \
                vector *to = (vector *)(y + (int64_t)r * m + c * size);                            \
                *to = add ? *to + sum[r][c] : sum[r][c];                                           \
            }                                                                                      \
    }
TILE(tile, lanes, PANEL)
TILE(narrow_tile, quad, 1)
TILE(column_tile, single, 1)

/* y [n, m] = bias + x [n, k] w [k, m]; added to what y holds, if asked for */
static inline __attribute__((always_inline)) void product(
    int64_t n, int k, int m, const float *x, const float *w, const float *bias, float *y, int add)
{
    for (int column = 0, wide; column < m; column += wide) {
        int left = m - column;
        wide = left >= PANEL * LANES ? PANEL * LANES : left >= LANES ? LANES : left >= 4 ? 4 : 1;
        for (int64_t first = 0; first < n; first += ROWS) {
            const float *rows[ROWS], *weight = w + column, *shift = bias + column;
            float *to = y + first * m + column;
            for (int r = 0; r < ROWS; r++) /* beyond the last row: the last one again */
                rows[r] = x + (first + r < n ? first + r : n - 1) * k;
            if (wide == PANEL * LANES)
                tile(PANEL, k, m, rows, weight, shift, to, n - first, add);
            else if (wide == LANES)
                tile(1, k, m, rows, weight, shift, to, n - first, add);
            else if (wide == 4)
                narrow_tile(1, k, m, rows, weight, shift, to, n - first, add);
            else
                column_tile(1, k, m, rows, weight, shift, to, n - first, add);
        }
    }
}

/* y [n, C] = x [n, C], each row with mean 0 and variance 1, times gain, plus shift; y may be x */
static void normed(int64_t n, const float *x, const float *gain, const float *shift, float *y)
{
    for (int64_t row = 0; row < n; row++, x += C, y += C) {
        float mean = 0, spread = 0;
        for (int i = 0; i < C; i++)
            mean += x[i];
        mean /= C;
        for (int i = 0; i < C; i++)
            spread += (x[i] - mean) * (x[i] - mean);
        float scale = 1 / sqrtf(spread / C + EPSILON);
        for (int i = 0; i < C; i++)
            y[i] = (x[i] - mean) * scale * gain[i] + shift[i];
    }
}

/* e^x for x <= 0, within 2 units in the last place down to -87; 0 below */
static inline lanes power(lanes x)
{
    whole low = x < -87.0f;
    lanes held = (lanes)(~low & (whole)x);
    lanes shifted = held * 1.44269504f + 12582912.0f;
    lanes count = shifted - 12582912.0f;
    lanes rest = held - count * 0.693359375f;
    rest = rest + count * 2.12194440e-4f;
    lanes sum = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    lanes scale = (lanes)((__builtin_convertvector(count, whole) + 127) << 23);
    return (lanes)(~low & (whole)(sum * scale));
}

/* the product of a query and a key, in four sums */
static inline quad shared(const float *q, const float *key)
{
    quad sum = {0};
    for (int d = 0; d + 4 <= D; d += 4)
        sum += *(const quad *)(q + d) * *(const quad *)(key + d);
    for (int d = D / 4 * 4; d < D; d++)
        sum[d % 4] += q[d] * key[d];
    return sum;
}

/* the sums of four quads */
static inline quad sums(quad a, quad b, quad c, quad d)
{
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5)
              + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5)
              + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5)
           + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* mixed values [D] of one query over positions 0 .. last of keys and values [P, D] */
static void attend(const float *query, const float *keys, const float *values, int64_t last,
                   float *scores, float *mixed)
{
    int64_t count = last + 1, room = (count + LANES - 1) / LANES * LANES, j = 0;
    float q[D], most = -INFINITY, total = 0;
    for (int d = 0; d < D; d++)
        q[d] = query[d] * (1 / sqrtf(D));
    for (; j < count; j += 4) { /* beyond the last position: the last one again */
        quad found[4];
        for (int64_t more = 0; more < 4; more++)
            found[more] = shared(q, keys + (j + more < count ? j + more : last) * D);
        *(quad *)(scores + j) = sums(found[0], found[1], found[2], found[3]);
    }
    for (j = count; j < room; j++)
        scores[j] = -INFINITY;
    for (j = 0; j < count; j++)
        most = scores[j] > most ? scores[j] : most;
    lanes all = {0};
    for (j = 0; j < room; j += LANES) {
        lanes *part = (lanes *)(scores + j);
        *part = power(*part - most);
        all += *part;
    }
    for (int lane = 0; lane < LANES; lane++)
        total += all[lane];
    float one[D], two[D];
    for (int d = 0; d < D; d++)
        one[d] = two[d] = 0;
    for (j = 0; j + 2 <= count; j += 2)
        for (int d = 0; d < D; d++) {
            one[d] += scores[j] * values[j * D + d];
            two[d] += scores[j + 1] * values[(j + 1) * D + d];
        }
    for (; j < count; j++)
        for (int d = 0; d < D; d++)
            one[d] += scores[j] * values[j * D + d];
    for (int d = 0; d < D; d++)
        mixed[d] = (one[d] + two[d]) / total;
}

static inline float activation(float x)
{
#if RELU
    return x > 0 ? x : 0;
#else
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
#endif
}

/* Last hidden states x [n, C] of tokens, after the final normalisation; keys and values go into the
   cache.

   n: tokens; ids, position, row [n]: of each, its id, its place in its sequence, and the row of the
       cache that it looks at
   copies: keys and values that are written; from, to_row, to_position [copies]: of which token, and
       where to
   blocks [layers]: the weights of each block, in the order of Block
   tokens, positions: the embeddings; longest: positions there are
   gain, shift [C]: of the final normalisation
   cache [layers, 2, batch, H, room, D]
   work: room for 9 n C + room + LANES numbers
*/
void forward(int64_t n, const int64_t *ids, const int64_t *position, const int64_t *row,
             int64_t copies, const int64_t *from, const int64_t *to_row, const int64_t *to_position,
             int64_t layers, const Block *blocks, const float *tokens, const float *positions,
             int64_t longest, const float *gain, const float *shift, float *cache, int64_t batch,
             int64_t room, float *work, float *x)
{
    float *normal = work, *qkv = normal + n * C, *mixed = qkv + n * 3 * C, *inner = mixed + n * C;
    float *scores = inner + n * 4 * C;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = position[i] < longest ? position[i] : longest - 1;
        for (int c = 0; c < C; c++)
            x[i * C + c] = tokens[ids[i] * C + c] + positions[place * C + c];
    }
    for (int64_t layer = 0; layer < layers; layer++) {
        const Block *b = blocks + layer;
        float *keys = cache + layer * 2 * batch * H * room * D;
        float *values = keys + batch * H * room * D;
        normed(n, x, b->gain1, b->shift1, normal);
        product(n, C, 3 * C, normal, b->qkv, b->qkv_bias, qkv, 0);
        for (int64_t i = 0; i < copies; i++)
            for (int h = 0; h < H; h++) {
                int64_t at = ((to_row[i] * H + h) * room + to_position[i]) * D;
                const float *own = qkv + from[i] * 3 * C + h * D;
                memcpy(keys + at, own + C, D * sizeof(float));
                memcpy(values + at, own + 2 * C, D * sizeof(float));
            }
        for (int64_t i = 0; i < n; i++)
            for (int h = 0; h < H; h++) {
                int64_t at = (row[i] * H + h) * room * D;
                attend(qkv + i * 3 * C + h * D, keys + at, values + at, position[i], scores,
                       mixed + i * C + h * D);
            }
        product(n, C, C, mixed, b->out, b->out_bias, x, 1);
        normed(n, x, b->gain2, b->shift2, normal);
        product(n, C, 4 * C, normal, b->up, b->up_bias, inner, 0);
        for (int64_t i = 0; i < n * 4 * C; i++)
            inner[i] = activation(inner[i]);
        product(n, 4 * C, C, inner, b->down, b->down_bias, x, 1);
    }
    normed(n, x, gain, shift, x);
}
