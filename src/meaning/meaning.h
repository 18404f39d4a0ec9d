/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking passages of text by words and by meaning. Pure computation in the
 * daemon: no file, no store, no thread; search/ supplies the text and keeps
 * the results.
 *
 *   terms.c   text to terms: words in lower case, stemmed, as hashes
 *   cut.c     a text to passages of a few sentences
 *   train.c   latent semantic analysis: a truncated singular value
 *             decomposition of the passages of one tenant
 *   model.c   its result: a vector for each term; stored and read back
 *   index.c   passages in memory; BM25, cosine, both with relevance feedback
 *
 * Text comes from anybody. Sizes are bounded by the constants below; nothing
 * is allocated from a size that stored bytes claim before it was compared with
 * their length.
 */
#ifndef GLOVEBOX_MEANING_MEANING_H
#define GLOVEBOX_MEANING_MEANING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct error;

/* ---- terms.c ------------------------------------------------------------ */

/* A term is known by the hash of its stem alone, so that no list of words
 * outlives the text they came from. */
struct meaning_term {
    uint32_t hash;
    uint32_t count;
};

struct meaning_terms {
    struct meaning_term *items; /* by hash, each once; owned */
    size_t count;
    uint32_t words; /* of the text, stop words left out */
};

#define MEANING_TERMS_MAX 4096u /* different ones of one text */

/* Any bytes; what is not UTF-8 separates words. */
void meaning_terms_read(struct meaning_terms *ret, const char *text,
                        size_t len);
void meaning_terms_done(struct meaning_terms *t); /* for cleanup() */
/* To bytes and back. False: not what meaning_terms_pack wrote. */
void meaning_terms_pack(struct buf *out, const struct meaning_terms *t);
bool meaning_terms_unpack(struct meaning_terms *ret, const void *bytes,
                          size_t len);

/* ---- cut.c -------------------------------------------------------------- */

struct meaning_passage {
    size_t start, len;       /* in the text */
    uint32_t page;           /* from 1; 0: the text has no pages */
    uint32_t line, line_end; /* from 1 within the text; 0: it has pages */
};

#define MEANING_PASSAGES_MAX 4000u /* of one text; the rest is left out */

/* paged: form feeds end pages. Returns the number; *ret is owned by caller. */
size_t meaning_cut(const char *text, size_t len, bool paged,
                   struct meaning_passage **ret);

/* ---- train.c, model.c --------------------------------------------------- */

#define MEANING_DIM_MAX 128u      /* of vectors of latent semantic analysis */
#define MEANING_VECTOR_MAX 4096u  /* of a vector of any origin */
#define MEANING_SAMPLE_MAX 20000u /* passages that one training reads */
#define MEANING_VOCABULARY 20000u /* terms that a model knows */
#define MEANING_SAMPLE_TERMS 2000000u /* of all these passages together */
#define MEANING_LEAST 12u             /* passages; fewer are not trained on */

struct meaning_trainer;
struct meaning_model;

struct meaning_trainer *meaning_trainer_new(void);
void meaning_trainer_free(struct meaning_trainer *t); /* accepts NULL */
/* False: it is full and takes no more. */
bool meaning_trainer_add(struct meaning_trainer *t,
                         const struct meaning_terms *terms);
/* stop: ends the training with ERR_UNAVAILABLE once true; or NULL. Fewer than
 * MEANING_LEAST passages, or none with a word in common: ERR_CONFLICT. */
int meaning_train(struct meaning_trainer *t, const atomic_bool *stop,
                  struct meaning_model **ret, struct error *err);

void meaning_model_free(struct meaning_model *m); /* accepts NULL */
unsigned meaning_model_dim(const struct meaning_model *m);
size_t meaning_model_terms(const struct meaning_model *m);
size_t meaning_model_bytes(const struct meaning_model *m); /* of memory */
/* The vector of a text, which may be newer than the model ("folding in").
 * False, and zeroes: the model knows none of its terms. ret: dim numbers. */
bool meaning_model_fold(const struct meaning_model *m,
                        const struct meaning_terms *terms, float *ret);
/* To bytes, which end with their SHA-256, and back: ERR_CORRUPT. */
void meaning_model_pack(struct buf *out, const struct meaning_model *m);
int meaning_model_unpack(const void *bytes, size_t len,
                         struct meaning_model **ret, struct error *err);

/* A vector in eight bits a number; directions are kept, lengths are not. */
void meaning_vector_pack(const float *vector, unsigned dim, int8_t *ret);

/* ---- index.c ------------------------------------------------------------ */

#define MEANING_INDEX_MAX 400000u /* passages */

/* Not thread-safe: one call at a time. */
struct meaning_index;

struct meaning_index *meaning_index_new(unsigned dim);
void meaning_index_free(struct meaning_index *x);          /* accepts NULL */
size_t meaning_index_count(const struct meaning_index *x); /* not removed */
size_t meaning_index_bytes(const struct meaning_index *x);
/* vector: dim numbers, or NULL: it has none. group: of the caller's choice,
 * small numbers (a workspace). False: the index is full. */
bool meaning_index_add(struct meaning_index *x, int64_t passage,
                       int64_t document, uint32_t group,
                       const struct meaning_terms *terms,
                       const int8_t *vector);
/* False: it has no such passage. */
bool meaning_index_remove(struct meaning_index *x, int64_t passage);

enum meaning_mode {
    MEANING_WORDS,  /* BM25 */
    MEANING_VECTOR, /* cosine */
    MEANING_BOTH,   /* both, with relevance feedback */
};

struct meaning_query {
    enum meaning_mode mode;
    const struct meaning_terms *terms;
    const float *vector; /* dim numbers, or NULL: by words alone */
    const bool *groups;  /* which may be found; by number */
    size_t group_count;
    const int64_t *documents; /* only these, in order; NULL: all */
    size_t document_count;
    unsigned limit;        /* hits */
    unsigned per_document; /* hits of one document at most; 0: any number */
    /* The terms of a passage, for relevance feedback; NULL: no feedback. ret
     * is the caller's. False: not known. */
    bool (*terms_of)(void *ctx, int64_t passage, struct meaning_terms *ret);
    void *ctx;
};

struct meaning_hit {
    int64_t passage, document;
    double score; /* 0 to 1 */
    double words, cosine;
};

/* The best first. Statistics of words are those of passages that may be found
 * by this query and of no others. Returns how many; ret has room for limit. */
size_t meaning_index_rank(struct meaning_index *x,
                          const struct meaning_query *q,
                          struct meaning_hit *ret);

#endif
