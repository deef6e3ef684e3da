/* Opening database files and preparing statements; see database.h. */
#include "database.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef SHEPHERD_SQLITE_CIPHERS
/* SQLite3 Multiple Ciphers declares them in a header of its own. */
int sqlite3_key_v2(sqlite3 *db, const char *schema, const void *key, int n_bytes);
int sqlite3mc_config(sqlite3 *db, const char *parameter, int value);
int sqlite3mc_cipher_index(const char *name);
#endif
#if defined(__linux__) && defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const char RAW[] = "raw:"; /* before a key that is not a passphrase */
enum { RAW_BYTES = 4, SECRET_BYTES = SHP_DATABASE_KEY_BYTES - 1 };
static const char *const CIPHERS[] = {"chacha20", "aegis"};

/* Overwrites bytes in a way that the compiler cannot leave out. */
static void wipe(void *bytes, size_t n)
{
    volatile unsigned char *byte = bytes;
    while (n--)
        *byte++ = 0;
}

int shp_database_has_ciphers(void)
{
#ifdef SHEPHERD_SQLITE_CIPHERS
    return 1;
#else
    return 0;
#endif
}

int shp_database_best_cipher(void)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx") ? SHP_DATABASE_AEGIS : SHP_DATABASE_CHACHA20;
#elif defined(__APPLE__) && defined(__aarch64__)
    return SHP_DATABASE_AEGIS;
#elif defined(__linux__) && defined(__aarch64__)
    enum { HAS_AES = 1 << 3 }; /* HWCAP_AES of asm/hwcap.h */
    return getauxval(AT_HWCAP) & HAS_AES ? SHP_DATABASE_AEGIS : SHP_DATABASE_CHACHA20;
#else
    return SHP_DATABASE_CHACHA20;
#endif
}

static const char *cipher_of(const unsigned char *key)
{
    return CIPHERS[key[SECRET_BYTES] == SHP_DATABASE_AEGIS];
}

static int set_key(sqlite3 *db, const unsigned char *key)
{
#ifdef SHEPHERD_SQLITE_CIPHERS
    unsigned char raw[RAW_BYTES + SECRET_BYTES];
    int cipher = sqlite3mc_cipher_index(cipher_of(key));
    if (sqlite3mc_config(db, "cipher", cipher) != cipher)
        return SHP_DATABASE_NO_CIPHERS;
    memcpy(raw, RAW, RAW_BYTES);
    memcpy(raw + RAW_BYTES, key, SECRET_BYTES);
    int code = sqlite3_key_v2(db, "main", raw, (int)sizeof raw);
    wipe(raw, sizeof raw);
    return code;
#else
    (void)db, (void)key;
    return SHP_DATABASE_NO_CIPHERS;
#endif
}

int shp_database_open(const char *path, int flags, int busy_timeout_ms, const unsigned char *key, sqlite3 **out)
{
    int code = sqlite3_open_v2(path, out, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK && key)
        code = set_key(*out, key);
    if (code != SQLITE_OK)
        return code;
    sqlite3_busy_timeout(*out, busy_timeout_ms);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_FKEY, 1, (int *)NULL);
    /* The file can come from another person: its schema must not call functions with side effects. */
    sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    return SQLITE_OK;
}

int shp_database_prepare(sqlite3 *db, const char *sql, int n_bytes, sqlite3_stmt **out)
{
    const char *tail = NULL;
    sqlite3_stmt *second = NULL;
    int code = sqlite3_prepare_v3(db, sql, n_bytes + 1, SQLITE_PREPARE_PERSISTENT, out, &tail);
    /* Anything but white space and comments behind the statement would be dropped silently. */
    if (code == SQLITE_OK && tail < sql + n_bytes)
        code = sqlite3_prepare_v3(db, tail, (int)(sql + n_bytes - tail) + 1, 0, &second, NULL);
    if (code == SQLITE_OK && (second || !*out))
        code = SHP_DATABASE_NOT_ONE;
    sqlite3_finalize(second);
    return code;
}

static void append_hex(char *end, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *end++ = digits[bytes[i] >> 4];
        *end++ = digits[bytes[i] & 15];
    }
    *end = '\0';
}

/* The URI of shp_database_copy with its query, in memory of malloc; NULL without memory. */
static char *uri_of_copy(const char *uri, const unsigned char *key, size_t *size)
{
    /* reserve: bytes at the end of a page for its nonce and tag. */
    static const char *const hexkeys[] = {"?cipher=chacha20&reserve=32&hexkey=", "?cipher=aegis&reserve=64&hexkey="};
    static const char plain[] = "?reserve=0&key=";
    const char *query = plain;
    if (key)
        query = hexkeys[key[SECRET_BYTES] == SHP_DATABASE_AEGIS];
    else if (!shp_database_has_ciphers())
        query = "";
    *size = strlen(uri) + strlen(query) + 2 * (RAW_BYTES + SECRET_BYTES) + 1;
    char *whole = malloc(*size);
    if (!whole)
        return NULL;
    strcpy(whole, uri);
    /* An encrypted database would lend its key to a copy whose URI has none. */
    strcat(whole, query);
    if (key) {
        append_hex(whole + strlen(whole), (const unsigned char *)RAW, RAW_BYTES);
        append_hex(whole + strlen(whole), key, SECRET_BYTES);
    }
    return whole;
}

int shp_database_copy(sqlite3 *db, const char *uri, const unsigned char *key)
{
    sqlite3_stmt *statement = NULL;
    size_t size = 0;
    if (key && !shp_database_has_ciphers())
        return SHP_DATABASE_NO_CIPHERS;
    char *whole = uri_of_copy(uri, key, &size);
    if (!whole)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(statement, 1, whole, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    wipe(whole, size);
    free(whole);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
