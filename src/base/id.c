/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include "base/must.h"

typedef unsigned __int128 wide;

/* 128 bits are 25 digits: one, and two chunks of twelve that fit into 64 bits. */
#define CHUNK_DIGITS 12
#define POW36_6      2176782336u
#define POW36_12     4738381338321616896u
#define TOP_MAX      15 /* the first digit of 2^128 - 1 */

#define MS_MAX        (((int64_t)1 << 48) - 1)
#define COUNTER_MAX   ((1u << 24) - 1)
#define COUNTER_HI_MS 1000

/* Fields from the most significant bit: time 48, counter_hi 24, counter_lo 24, chance 32. */
static struct id compose(int64_t ms, uint32_t hi, uint32_t lo, uint32_t chance)
{
    return (struct id){(uint64_t)ms << 16 | hi >> 8,
                       (uint64_t)(hi & 0xff) << 56 | (uint64_t)lo << 32 | chance};
}

static uint32_t draw_counter(struct rng *rng)
{
    return (uint32_t)(rng_next(rng) >> 40);
}

struct id id_next(struct id_source *s, instant now, struct rng *rng)
{
    int64_t ms = (int64_t)(s->last.hi >> 16);
    uint32_t hi = (uint32_t)((s->last.hi & 0xffff) << 8 | s->last.lo >> 56);
    uint32_t lo = (uint32_t)(s->last.lo >> 32) & COUNTER_MAX;

    bool later = now.ms > ms;
    if (later) {
        ms = now.ms;
    } else if (lo < COUNTER_MAX) {
        lo++; /* also when the clock went back: the last id's time goes on */
    } else if (hi < COUNTER_MAX) {
        hi++;
        lo = 0;
    } else {
        ms++;
        hi = 0;
        later = true;
    }
    must(ms <= MS_MAX);

    /* The counters may only be drawn anew when the time grew: it alone keeps the
     * order then. */
    if (later) {
        lo = draw_counter(rng);
        if (s->counter_hi_ms <= 0 || ms - s->counter_hi_ms >= COUNTER_HI_MS) {
            hi = draw_counter(rng);
            s->counter_hi_ms = ms;
        }
    }
    s->last = compose(ms, hi, lo, (uint32_t)(rng_next(rng) >> 32));
    return s->last;
}

void id_seen(struct id_source *s, struct id id)
{
    if (id_cmp(id, s->last) > 0)
        s->last = id;
}

/* clang-format off */
/* Every pair of digits, in their order. */
#define PAIRS(d)                                                                                   \
    d "0" d "1" d "2" d "3" d "4" d "5" d "6" d "7" d "8" d "9" d "a" d "b"                        \
    d "c" d "d" d "e" d "f" d "g" d "h" d "i" d "j" d "k" d "l" d "m" d "n"                        \
    d "o" d "p" d "q" d "r" d "s" d "t" d "u" d "v" d "w" d "x" d "y" d "z"
static const char pairs[] =
    PAIRS("0") PAIRS("1") PAIRS("2") PAIRS("3") PAIRS("4") PAIRS("5")
    PAIRS("6") PAIRS("7") PAIRS("8") PAIRS("9") PAIRS("a") PAIRS("b")
    PAIRS("c") PAIRS("d") PAIRS("e") PAIRS("f") PAIRS("g") PAIRS("h")
    PAIRS("i") PAIRS("j") PAIRS("k") PAIRS("l") PAIRS("m") PAIRS("n")
    PAIRS("o") PAIRS("p") PAIRS("q") PAIRS("r") PAIRS("s") PAIRS("t")
    PAIRS("u") PAIRS("v") PAIRS("w") PAIRS("x") PAIRS("y") PAIRS("z");
/* clang-format on */

/* Six digits, two at a time; the divisions are by constants, so they are multiplications. */
static void write_six(uint32_t v, char *out)
{
    memcpy(out + 4, pairs + v % 1296 * 2, 2);
    v /= 1296;
    memcpy(out + 2, pairs + v % 1296 * 2, 2);
    memcpy(out, pairs + v / 1296 * 2, 2);
}

static void write_chunk(uint64_t v, char *out)
{
    write_six((uint32_t)(v / POW36_6), out);
    write_six((uint32_t)(v % POW36_6), out + 6);
}

void id_format(struct id id, char out[ID_TEXT_LEN])
{
    wide v = (wide)id.hi << 64 | id.lo;
    wide rest = v / POW36_12;
    uint64_t top = (uint64_t)(rest / POW36_12);
    write_chunk((uint64_t)(v - rest * POW36_12), out + 1 + CHUNK_DIGITS);
    write_chunk((uint64_t)(rest - (wide)top * POW36_12), out + 1);
    out[0] = (char)(top < 10 ? '0' + top : 'a' + (top - 10));
}

/* Value of a digit plus one, so that every byte not named is zero: no digit. */
static const uint8_t digit_plus_one[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['g'] = 17, ['h'] = 18, ['i'] = 19, ['j'] = 20, ['k'] = 21, ['l'] = 22, ['m'] = 23, ['n'] = 24,
    ['o'] = 25, ['p'] = 26, ['q'] = 27, ['r'] = 28, ['s'] = 29, ['t'] = 30, ['u'] = 31, ['v'] = 32,
    ['w'] = 33, ['x'] = 34, ['y'] = 35, ['z'] = 36, ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14,
    ['E'] = 15, ['F'] = 16, ['G'] = 17, ['H'] = 18, ['I'] = 19, ['J'] = 20, ['K'] = 21, ['L'] = 22,
    ['M'] = 23, ['N'] = 24, ['O'] = 25, ['P'] = 26, ['Q'] = 27, ['R'] = 28, ['S'] = 29, ['T'] = 30,
    ['U'] = 31, ['V'] = 32, ['W'] = 33, ['X'] = 34, ['Y'] = 35, ['Z'] = 36,
};

/* The value of n digits; false if one of them is none. */
static bool read_digits(const char *at, int n, uint64_t *v)
{
    uint64_t sum = 0;
    bool good = true;
    for (int i = 0; i < n; i++) {
        unsigned d = digit_plus_one[(uint8_t)at[i]];
        good &= d != 0;
        sum = sum * 36 + (d - 1);
    }
    *v = sum;
    return good;
}

struct err id_parse(struct str text, struct id *id)
{
    if (text.len != ID_TEXT_LEN)
        return err_make(ERR_BAD_ID, "a job id has 25 characters, this one has %zu", text.len);
    uint64_t top, mid, low;
    bool good = read_digits(text.at, 1, &top);
    good &= read_digits(text.at + 1, CHUNK_DIGITS, &mid);
    good &= read_digits(text.at + 1 + CHUNK_DIGITS, CHUNK_DIGITS, &low);
    if (!good)
        return err_make(ERR_BAD_ID, "a job id consists of the digits 0-9 and the letters a-z");

    /* No overflow in tail: both chunks are below 36^12. */
    wide tail = (wide)mid * POW36_12 + low, v;
    const wide top_unit = (wide)POW36_12 * POW36_12;
    if (top > TOP_MAX || __builtin_add_overflow(top * top_unit, tail, &v))
        return err_make(ERR_BAD_ID, "a job id is below 2^128 (f5lxx1zz5pnorynqglhzmsp33)");
    *id = (struct id){(uint64_t)(v >> 64), (uint64_t)v};
    return err_none();
}

void id_encode(struct id id, uint8_t out[16])
{
    uint64_t hi = __builtin_bswap64(id.hi), lo = __builtin_bswap64(id.lo);
    memcpy(out, &hi, 8);
    memcpy(out + 8, &lo, 8);
}

struct id id_decode(const uint8_t in[16])
{
    uint64_t hi, lo;
    memcpy(&hi, in, 8);
    memcpy(&lo, in + 8, 8);
    return (struct id){__builtin_bswap64(hi), __builtin_bswap64(lo)};
}

static bool is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
}

bool id_find(struct str text, size_t *at, struct id *id)
{
    for (size_t i = 0; i < text.len; i++) {
        size_t n = 0;
        while (i + n < text.len && is_digit(text.at[i + n]))
            n++;
        if (n == ID_TEXT_LEN && id_parse((struct str){text.at + i, n}, id).code == ERR_OK) {
            *at = i;
            return true;
        }
        i += n;
    }
    return false;
}
