/* SPDX-License-Identifier: Apache-2.0 */

/* tenax completion: scripts by which a shell completes command lines. They contain the tables of
 * this program; only for names of queues and policies and for ids is the server asked, by
 * cli/complete_values.c. */

#include <stdio.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/commands.h"
#include "cli/complete_values.h"
#include "cli/completion_fish.h"

#define SHELLS "bash|zsh|fish"

const struct subcommand completion_command = {
    .name = "completion",
    .usage = SHELLS,
    .summary = "print a script for completion in a shell",
    .about =
        "Prints a script for bash, zsh or fish that completes commands, options and their values; "
        "names of queues and policies and ids of jobs by asking the server. "
        "The packages install all three; otherwise add a line to the shell's start-up file, "
        "see the examples. For zsh, the script may also be put in a folder of its $fpath.",
    .examples = "  source <(tenax completion bash)   # in ~/.bashrc\n"
                "  source <(tenax completion zsh)    # in ~/.zshrc, after compinit\n"
                "  tenax completion fish > ~/.config/fish/completions/tenax.fish\n",
    .words = SHELLS,
};

/* Values that the shell can complete: FILE and DIR. */
static bool is_path(const char *value)
{
    return strcmp(value, "FILE") == 0 || strcmp(value, "DIR") == 0;
}

/* The words of a list between blanks. */
static void add_words(struct buf *b, const char *list)
{
    struct str word;
    for (const char *before = ""; options_next_word(&list, &word); before = " ")
        buf_print(b, "%s%.*s", before, STR_ARG(word));
}

/* --- bash --- */

static const char bash_head[] =
    "# bash completion for tenax; made by `tenax completion bash`\n"
    "\n"
    "# Sets flags, words and rest of a command, and kind: the kind of the flag's value.\n"
    "_tenax_table()\n"
    "{\n"
    "    case $command in\n";

static const char bash_tail[] =
    "    esac\n"
    "}\n"
    "\n"
    "# Sets start to where the command to be run begins; 0: not given yet.\n"
    "_tenax_find_start()\n"
    "{\n"
    "    local i flag kind\n"
    "    start=0\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        flag=${COMP_WORDS[i]}\n"
    "        case $flag in\n"
    "            --) start=$((i + 1)) && return ;;\n"
    "            -?*)\n"
    "                kind= && _tenax_table\n"
    "                if [[ ${COMP_WORDS[i + 1]} == = ]]; then ((i += 2))\n"
    "                elif [[ $kind ]]; then ((i++)); fi\n"
    "                ;;\n"
    "            *) start=$i && return ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "\n"
    "_tenax_complete_value()\n"
    "{\n"
    "    case $kind in\n"
    "        FILE) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
    "        DIR) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
    "        =*) COMPREPLY=($(compgen -W \"${kind#=}\" -- \"$cur\")) ;;\n"
    "        STATUS|QUEUE|ID|POLICY)\n"
    "            # compgen -W would expand these words.\n"
    "            read -ra line <<<\"$COMP_LINE\"\n"
    "            mapfile -t COMPREPLY < <(\"${COMP_WORDS[0]}\" complete-values $kind \"$cur\" \\\n"
    "                \"${line[@]}\" 2>/dev/null)\n"
    "            ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_tenax_complete_command()\n"
    "{\n"
    "    if declare -F _command_offset >/dev/null; then\n"
    "        _command_offset \"$start\"\n"
    "    elif ((COMP_CWORD == start)); then\n"
    "        COMPREPLY=($(compgen -c -- \"$cur\"))\n"
    "    else\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "    fi\n"
    "}\n"
    "\n"
    "_tenax()\n"
    "{\n"
    "    local IFS=$' \\t\\n' cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
    "    local flag= kind= flags= words= rest= start=0 at=2 line=\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        COMPREPLY=($(compgen -W \"$_tenax_commands help --help --version\" -- \"$cur\"))\n"
    "        return\n"
    "    fi\n"
    "    _tenax_table\n"
    "    if ((COMP_CWORD > 2)) && [[ \" $words \" == *\" ${COMP_WORDS[2]} \"* ]]; then\n"
    "        command=\"$command ${COMP_WORDS[2]}\" at=3\n"
    "        _tenax_table\n"
    "    fi\n"
    "    if [[ $rest == COMMAND ]]; then\n"
    "        _tenax_find_start\n"
    "        if ((start)); then\n"
    "            _tenax_complete_command\n"
    "            return\n"
    "        fi\n"
    "    fi\n"
    "    # With its '=' among COMP_WORDBREAKS, bash splits --flag=value in three.\n"
    "    if [[ $cur == = ]]; then flag=${COMP_WORDS[COMP_CWORD - 1]} cur=\n"
    "    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then flag=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    else flag=${COMP_WORDS[COMP_CWORD - 1]}; fi\n"
    "    kind=\n"
    "    [[ $flag == -?* ]] && _tenax_table\n"
    "    if [[ $kind ]]; then\n"
    "        _tenax_complete_value\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$flags --help\" -- \"$cur\"))\n"
    "    elif ((COMP_CWORD == at)) && [[ $words ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "    elif [[ $rest == COMMAND ]]; then\n"
    "        start=$COMP_CWORD\n"
    "        _tenax_complete_command\n"
    "    else\n"
    "        kind=$rest\n"
    "        _tenax_complete_value\n"
    "    fi\n"
    "}\n"
    "complete -F _tenax tenax\n";

static void add_bash_kinds(struct buf *b, const struct subcommand *c)
{
    const struct option_def *d = c->options;
    buf_lit(b, "            case $flag in\n");
    for (; d->flag; d++) {
        if (d->type == OPTION_SWITCH || d->implied)
            continue; /* the next word is not its value */
        buf_lit(b, "                ");
        if (d->letter)
            buf_print(b, "-%c|", d->letter);
        buf_print(b, "--%s) kind=", d->flag);
        if (d->choices) {
            buf_lit(b, "'=");
            add_words(b, d->choices);
            buf_lit(b, "'");
        } else {
            const char *known = complete_values_kind(c, d);
            buf_print(b, "%s", known ? known : is_path(d->value) ? d->value : "VALUE");
        }
        buf_lit(b, " ;;\n");
    }
    buf_lit(b, "            esac\n");
}

static void add_bash_command(void *ctx, const struct subcommand *c)
{
    struct buf *b = ctx;
    buf_print(b, "        '%s')\n            flags='", c->name);
    for (const struct option_def *d = c->options; d && d->flag; d++)
        buf_print(b, "%s--%s", d == c->options ? "" : " ", d->flag);
    buf_lit(b, "' words='");
    add_words(b, c->words);
    buf_print(b, "' rest=%s\n", c->rest ? c->rest : "");
    if (c->options)
        add_bash_kinds(b, c);
    buf_lit(b, "            ;;\n");
}

static void add_commands(struct buf *b)
{
    for (size_t i = 0; i < catalog_count; i++)
        if (catalog[i].page)
            buf_print(b, "%s ", catalog[i].page->name);
}

static void write_bash(struct buf *b)
{
    buf_lit(b, bash_head);
    catalog_visit(add_bash_command, b);
    buf_lit(b, "        help)\n            flags='' words='");
    add_commands(b);
    buf_lit(b, "exit-codes variables' rest=\n            ;;\n");
    buf_lit(b, bash_tail);
    buf_lit(b, "_tenax_commands='");
    add_commands(b);
    buf_lit(b, "'\n");
}

/* --- zsh --- */

/* Escapes for '...', and for brackets and colons, at which _arguments and _describe split. */
static void add_zsh_text(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_lit(b, "'\\''");
        else if (strchr("[]:\\", *text))
            buf_print(b, "\\%c", *text);
        else
            buf_byte(b, *text);
    }
}

static void add_zsh_action(struct buf *b, const char *value, const char *choices)
{
    if (choices) {
        buf_lit(b, "(");
        add_words(b, choices);
        buf_lit(b, ")");
    } else if (strcmp(value, "FILE") == 0) {
        buf_lit(b, "_files");
    } else if (strcmp(value, "DIR") == 0) {
        buf_lit(b, "_files -/");
    } else if (complete_values_knows(value)) {
        buf_print(b, " _tenax_values %s", value); /* as it is: no options are inserted */
    } else {
        buf_lit(b, " ");
    }
}

static void add_zsh_option(struct buf *b, const struct subcommand *c, const struct option_def *d)
{
    const char *known = complete_values_kind(c, d);
    const char *repeated = d->type == OPTION_LIST ? "*" : "", *equals = d->implied ? "=-"
                                                                        : d->value ? "="
                                                                                   : "";
    buf_lit(b, " \\\n                ");
    if (d->letter)
        buf_print(b, "'%s'{-%c%s,--%s%s}'[", repeated, d->letter, d->value ? "+" : "", d->flag,
                  equals);
    else
        buf_print(b, "'%s--%s%s[", repeated, d->flag, equals);
    add_zsh_text(b, d->help);
    buf_lit(b, "]");
    if (d->value) {
        buf_print(b, "%s%s:", d->implied ? "::" : ":", d->value);
        add_zsh_action(b, known ? known : d->value, d->choices);
    }
    buf_lit(b, "'");
}

/* For words of unknown kind, an action that does nothing: with a message there, zsh would list
 * options instead of inserting them. */
static void add_zsh_rest(struct buf *b, const struct subcommand *c)
{
    if (c->words) {
        buf_lit(b, " \\\n                '1:action:");
        add_zsh_action(b, "", c->words);
        buf_lit(b, "'");
    }
    buf_lit(b, " \\\n                ");
    if (!c->rest) {
        buf_lit(b, "'*: :{false}'");
    } else if (strcmp(c->rest, "COMMAND") == 0) {
        buf_lit(b, "'*::command:_normal'");
    } else {
        buf_print(b, "'*:%s:", c->rest);
        add_zsh_action(b, c->rest, NULL);
        buf_lit(b, "'");
    }
}

static void add_zsh_command(void *ctx, const struct subcommand *c)
{
    struct buf *b = ctx;
    buf_print(b,
              "        '%s')\n            _arguments -S \\\n"
              "                '(- *)'{-h,--help}'[show help]'",
              c->name);
    for (const struct option_def *d = c->options; d && d->flag; d++)
        add_zsh_option(b, c, d);
    add_zsh_rest(b, c);
    buf_lit(b, "\n            ;;\n");
}

static void write_zsh(struct buf *b)
{
    buf_lit(b, "#compdef tenax\n"
               "# zsh completion for tenax; made by `tenax completion zsh`\n"
               "\n"
               "_tenax_values()\n"
               "{\n"
               "    local -a found\n"
               "    found=(${(f)\"$(${(Q)asked[1]} complete-values $1 \"${(Q)PREFIX}\" ${(Q)asked} "
               "2>/dev/null)\"})\n"
               "    compadd -a found\n"
               "}\n"
               "\n"
               "_tenax()\n"
               "{\n"
               "    local -a asked=($words)\n"
               "    local -a commands=(\n");
    for (size_t i = 0; i < catalog_count; i++) {
        if (!catalog[i].page)
            continue;
        buf_print(b, "        '%s:", catalog[i].page->name);
        add_zsh_text(b, catalog[i].page->summary);
        buf_lit(b, "'\n");
    }
    buf_lit(b, "        'help:explain a command'\n"
               "    )\n"
               "    if ((CURRENT == 2)); then\n"
               "        _describe -t commands command commands\n"
               "        return\n"
               "    fi\n"
               "    local command=$words[2]\n"
               "    shift words\n"
               "    ((CURRENT--))\n"
               "    # An action may have options of its own.\n"
               "    if ((CURRENT > 2)) && [[ -n ${(M)_tenax_actions:#$command $words[2]} ]]; then\n"
               "        command+=\" $words[2]\"\n"
               "        shift words\n"
               "        ((CURRENT--))\n"
               "    fi\n"
               "    case $command in\n");
    catalog_visit(add_zsh_command, b);
    buf_lit(b, "        help)\n"
               "            _describe -t commands command commands\n"
               "            ;;\n"
               "    esac\n"
               "}\n");
}

static void add_zsh_actions(void *ctx, const struct subcommand *c)
{
    if (strchr(c->name, ' '))
        buf_print(ctx, "'%s' ", c->name);
}

/* When sourced, it registers itself; when found in $fpath, it is the function's body and is being
 * called for the first time. */
static void write_zsh_end(struct buf *b)
{
    buf_lit(b, "\ntypeset -ga _tenax_actions=(");
    catalog_visit(add_zsh_actions, b);
    buf_lit(b, ")\n"
               "if [[ $funcstack[1] == _tenax ]]; then\n"
               "    _tenax \"$@\"\n"
               "else\n"
               "    compdef _tenax tenax\n"
               "fi\n");
}

int completion_main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        struct buf page = {0};
        subcommand_help(&page, &completion_command);
        subcommand_print(stdout, &page);
        buf_fini(&page);
        return CLI_OK;
    }
    struct buf b = {0};
    if (argc == 2 && strcmp(argv[1], "bash") == 0) {
        write_bash(&b);
    } else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
        write_zsh(&b);
        write_zsh_end(&b);
    } else if (argc == 2 && strcmp(argv[1], "fish") == 0) {
        completion_fish(&b);
    } else {
        return subcommand_usage(&completion_command, "for which shell? bash, zsh or fish");
    }
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return CLI_OK;
}
