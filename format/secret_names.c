/* secret_names.c - by which names secrets go.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/secret_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 128
#define MAX_WORDS NAME_MAX_BYTES

/* Secret wherever they stand in a name. */
static const char *const ANYWHERE[] = {
    "authorization", "authorisation", "authentication", "auth", "authn", "authz", "oauth", "jwt", "jwts", "bearer", "creds", "cred",
    "csrf", "xsrf", "hmac", "sas", "otp", "totp", "oidc", "saml", "dpop", "psk", "keytab", "keystore", "htpasswd", "pgpass",
    "hftoken", "idtoken", "passkey", "passkeys", NULL};
/* The same, also inside of a word, and where a name has it in parts: "openaiapikey", "PGPASSWORD", "passPhrase", "Kube-Config". */
static const char *const INSIDE[] = {
    "secret", "password", "passwd", "passphrase", "passcode", "credential", "cookie", "apikey", "accesskey", "privatekey", "sshkey",
    "signingkey", "encryptionkey", "masterkey", "authkey", "authtoken", "accesstoken", "refreshtoken", "bearertoken", "sessiontoken",
    "sessionid", "sessionkey", "kubeconfig", "netrc", NULL};
#define LEAST_INSIDE 5 /* bytes of the shortest */
/* Secret at the end of a name; in a header anywhere. */
static const char *const LAST[] = {"key", "token", "pwd", "dbpwd", "userpwd", "pw", "pat", "signature", "sig", "pass", "userpass", "session",
    "sid", "pin", "pem", "pfx", "assertion", "mnemonic", "headers", NULL};
/* What may stand behind such an end: "token_old", "key_v2". */
static const char *const BEHIND[] = {"v", "old", "new", "prod", "production", "dev", "staging", "primary", "secondary", "backup", "b",
    "base", "hex", "plain", NULL};
/* A token behind these is one of a text: "bos_token", "num_experts_per_token". */
static const char *const OF_A_TEXT[] = {"bos", "eos", "eot", "eom", "pad", "unk", "cls", "sep", "mask", "fim", "per", "num", "first", "last",
    "next", "prev", "input", "output", "prompt", "sampled", "embed", "image", "draft", NULL};
/* Headers behind these are names alone. */
static const char *const NAMES_OF[] = {"allow", "allowed", "expose", "exposed", "request", "id", "cors", NULL};
/* Secret when they follow each other, with anything behind: "access_key_id". */
static const char *const PAIRS[][2] = {
    {"api", "key"},     {"api", "keys"},    {"api", "token"},   {"api", "tokens"},    {"access", "key"},   {"access", "keys"},
    {"access", "token"}, {"access", "tokens"}, {"bearer", "tokens"}, {"refresh", "token"}, {"refresh", "tokens"}, {"session", "token"},
    {"session", "tokens"}, {"session", "id"}, {"session", "key"}, {"session", "keys"}, {"private", "key"}, {"private", "keys"},
    {"signing", "keys"}, {"encryption", "keys"}, {"ssh", "keys"}, {"security", "token"}, {"client", "key"}, {"client", "cert"},
    {"hf", "token"},    {"hf", "tokens"},   {"proxy", "user"},  {"id", "token"},      {"connection", "string"}, {"webhook", "url"},
    {"unlock", "code"}, {"recovery", "code"}, {"recovery", "codes"}};

struct words {
    char text[NAME_MAX_BYTES + MAX_WORDS + 1];
    const char *word[MAX_WORDS];
    size_t n;
};

/* Does a word begin at byte i, though none ended before it? "aB", "ABc", "a1b" */
static bool begins_inside(const char *s, size_t n, size_t i)
{
    unsigned char c = (unsigned char)s[i], before = i ? (unsigned char)s[i - 1] : '\0';

    if (isdigit(before))
        return isalpha(c) != 0;
    return isupper(c) && (islower(before) || (isupper(before) && i + 1 < n && islower((unsigned char)s[i + 1])));
}

/* The digits at the end of a word are no part of it: "token1"; "2" is no word. */
static void end_word(struct words *w, size_t *used)
{
    const char *word = w->word[w->n - 1];

    while (w->text + *used > word && isdigit((unsigned char)w->text[*used - 1]))
        --*used;
    if (w->text + *used == word)
        w->n--;
    else
        w->text[(*used)++] = '\0';
}

/* "--aws-accessKeyId2" -> aws access key id; the last words of a long name */
static void split_words(const char *s, size_t n, struct words *w)
{
    size_t i, used = 0;
    bool inside = false;

    w->n = 0;
    if (n > NAME_MAX_BYTES) {
        s += n - NAME_MAX_BYTES;
        n = NAME_MAX_BYTES;
    }
    for (i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (inside && (!isalnum(c) || begins_inside(s, n, i))) {
            end_word(w, &used);
            inside = false;
        }
        if (!isalnum(c))
            continue;
        if (!inside)
            w->word[w->n++] = w->text + used;
        inside = true;
        w->text[used++] = (char)tolower(c);
    }
    if (inside)
        end_word(w, &used);
}

/* Most differ in their first letter. */
static bool same(const char *a, const char *b)
{
    return *a == *b && !strcmp(a, b);
}

static bool is_listed(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (same(*list, word))
            return true;
    return false;
}

static bool has_pair(const struct words *w)
{
    size_t i, k;

    for (i = 1; i < w->n; i++)
        for (k = 0; k < sizeof PAIRS / sizeof *PAIRS; k++)
            if (same(w->word[i - 1], PAIRS[k][0]) && same(w->word[i], PAIRS[k][1]))
                return true;
    return false;
}

/* Look at the words as one. */
static bool is_joined_secret(const struct words *w)
{
    char all[NAME_MAX_BYTES + 1], *end = all, *at;
    const char *const *part;
    size_t i;

    for (i = 0; i < w->n; i++)
        end = stpcpy(end, w->word[i]);
    *end = '\0';
    for (at = all; end - at >= LEAST_INSIDE; at++)
        for (part = INSIDE; *part; part++)
            if (at[0] == (*part)[0] && at[1] == (*part)[1] && !strncmp(at, *part, strlen(*part)))
                return true;
    return is_listed(ANYWHERE, all);
}

/* Is the word i a secret's where a name ends? */
static bool ends_secret(const struct words *w, size_t i)
{
    if (i && !strcmp(w->word[i], "token") && is_listed(OF_A_TEXT, w->word[i - 1]))
        return false;
    if (i && !strcmp(w->word[i], "headers") && is_listed(NAMES_OF, w->word[i - 1]))
        return false;
    return is_listed(LAST, w->word[i]);
}

static bool is_secret(const char *s, size_t n, bool last_anywhere)
{
    struct words w;
    size_t i, end;

    split_words(s, n, &w);
    for (end = w.n; end > 1 && is_listed(BEHIND, w.word[end - 1]); end--)
        ;
    for (i = 0; i < w.n; i++)
        if (is_listed(ANYWHERE, w.word[i]) || ((last_anywhere || i + 1 == end) && ends_secret(&w, i)))
            return true;
    if (!w.n)
        return false;
    return is_joined_secret(&w) || has_pair(&w) || (w.n == 1 && !strcmp(w.word[0], "keys"));
}

bool td_secret_name(const char *s, size_t n)
{
    return is_secret(s, n, false);
}

bool td_secret_header(const char *s, size_t n)
{
    return is_secret(s, n, true);
}

bool td_names_secret(const char *s, size_t n, bool named)
{
    size_t i;

    if (!named && (n == 3 || n == 4) && !strncasecmp(s, "keys", n))
        return false;
    if (n && s[n - 1] == ':')
        n--;
    for (i = 0; i < n && (isalnum((unsigned char)s[i]) || s[i] == '_' || s[i] == '-' || s[i] == '.'); i++)
        ;
    return i && i == n && n <= NAME_MAX_BYTES && *s != '-' && is_secret(s, n, false);
}

bool td_is_naming(const char *s, size_t n)
{
    static const char *const names[] = {"name", "key", "k", "n", "id", "header", "field", "variable", "var", "env", "option", "arg", "param",
                                        "parameter", "label", "attribute", "attr", "property", "prop", NULL};
    const char *const *name;

    for (name = names; *name; name++)
        if (strlen(*name) == n && !strncasecmp(*name, s, n))
            return true;
    return false;
}
