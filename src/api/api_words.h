/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_WORDS_H
#define API_API_WORDS_H

/* The words that answers use, from the tables that have them. */

#include "wire/shape.h"

extern const struct shape_words api_status_words, api_event_words, api_cause_words,
    api_outcome_words, api_resolution_words, api_condition_words, api_decider_words,
    api_unique_words, api_when_words, api_death_words, api_fallback_words, api_obstacle_words,
    api_error_words, api_strategy_words, api_culprit_words;

#endif
