# Defines the target shepherd_sqlite: SQLite, static and hidden, for the one module that links it.
#
#   SHEPHERD_SQLITE      bundled: the amalgamation or an error, with ciphers unless only SQLite itself can be had;
#                        plain: SQLite's own amalgamation, without ciphers;  system: the machine's library, without
#                        ciphers;  auto (default): as bundled, else as system with a warning
#   SHEPHERD_SQLITE_DIR  a folder with sqlite3.c and sqlite3.h of your own choice (or in the environment)
#
# The module sees SHEPHERD_SQLITE_KIND as the string "bundled" or "system", and SHEPHERD_SQLITE_CIPHERS as 1 if a
# database can be encrypted.
set(SHEPHERD_SQLITE "auto" CACHE STRING "Where SQLite comes from: bundled, plain, system or auto")
set_property(CACHE SHEPHERD_SQLITE PROPERTY STRINGS auto bundled plain system)
set(SHEPHERD_SQLITE_DIR "$ENV{SHEPHERD_SQLITE_DIR}" CACHE PATH "Folder with sqlite3.c and sqlite3.h")
if(NOT SHEPHERD_SQLITE MATCHES "^(auto|bundled|plain|system)$")
  message(FATAL_ERROR "SHEPHERD_SQLITE is '${SHEPHERD_SQLITE}': expected bundled, plain, system or auto")
endif()
find_package(Threads REQUIRED)

set(_sqlite_remedy
  "  The build fetches SQLite itself from PyPI, sqlite.org, a Debian mirror or npm when it reaches one of them.\n"
  "  Without a network: put sqlite3.c and sqlite3.h of SQLite 3.53.4 into a folder and name that folder in\n"
  "  the environment variable SHEPHERD_SQLITE_DIR.")

# Sets OUT to the folder of the amalgamation, or to an empty string.
function(shepherd_find_amalgamation out)
  if(SHEPHERD_SQLITE_DIR)
    if(NOT EXISTS "${SHEPHERD_SQLITE_DIR}/sqlite3.c" OR NOT EXISTS "${SHEPHERD_SQLITE_DIR}/sqlite3.h")
      message(FATAL_ERROR "SHEPHERD_SQLITE_DIR: no sqlite3.c and sqlite3.h in ${SHEPHERD_SQLITE_DIR}")
    endif()
    set(${out} "${SHEPHERD_SQLITE_DIR}" PARENT_SCOPE)
    return()
  endif()
  # Beside this project it serves every later build and goes into a release archive.
  if(SHEPHERD_SQLITE STREQUAL "plain")
    set(wanted --plain "${CMAKE_CURRENT_BINARY_DIR}/_sqlite_plain")
  else()
    set(wanted "${CMAKE_CURRENT_SOURCE_DIR}/_sqlite" "${CMAKE_CURRENT_BINARY_DIR}/_sqlite")
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/tools/get_sqlite.py" ${wanted}
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed EQUAL 2)
    message(FATAL_ERROR "An unknown SQLite is in the way (see above).")
  elseif(failed)
    set(folder "")
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# Sets OUT to the SQLITE_VERSION_NUMBER of FOLDER/sqlite3.h.
function(shepherd_sqlite_version folder out)
  file(STRINGS "${folder}/sqlite3.h" line REGEX "^#define SQLITE_VERSION_NUMBER +[0-9]+")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  set(${out} "${number}" PARENT_SCOPE)
endfunction()

function(shepherd_add_bundled_sqlite folder)
  shepherd_sqlite_version("${folder}" version)
  if(version LESS 3053000)
    message(FATAL_ERROR "${folder}/sqlite3.h is SQLite ${version}: 3053000 (3.53) or newer is needed")
  endif()
  file(STRINGS "${folder}/sqlite3.c" ciphers REGEX "^#define SQLITE3MC_VERSION_STRING " LIMIT_COUNT 1)
  add_library(shepherd_sqlite STATIC "${folder}/sqlite3.c")
  target_include_directories(shepherd_sqlite SYSTEM INTERFACE "${folder}")
  set_target_properties(shepherd_sqlite PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_compile_definitions(shepherd_sqlite PRIVATE
    # What Shepherd relies on.
    SQLITE_ENABLE_FTS5
    SQLITE_THREADSAFE=2            # no lock inside a connection: the store has its own
    SQLITE_DEFAULT_WAL_SYNCHRONOUS=1
    SQLITE_DEFAULT_CACHE_SIZE=-16384
    SQLITE_DEFAULT_MMAP_SIZE=0     # no gain warm, and 40 times slower on the first cold query
    SQLITE_TEMP_STORE=2
    SQLITE_DQS=0                   # "name" is never quietly a string
    # Code that nothing here needs; a database cannot load it either.
    SQLITE_OMIT_LOAD_EXTENSION
    SQLITE_OMIT_DEPRECATED
    SQLITE_OMIT_SHARED_CACHE
    SQLITE_OMIT_DECLTYPE
    SQLITE_TRUSTED_SCHEMA=0
    # Speed: 15 % on searches and 30 % on point look-ups with a release build's -O3.
    SQLITE_DEFAULT_MEMSTATUS=0
    SQLITE_LIKE_DOESNT_MATCH_BLOBS
    SQLITE_MAX_EXPR_DEPTH=0
    SQLITE_STRICT_SUBTYPE=1
    SQLITE_USE_ALLOCA
    $<$<BOOL:${UNIX}>:HAVE_USLEEP=1 HAVE_ISNAN=1 HAVE_LOCALTIME_R=1 HAVE_GMTIME_R=1>
    $<$<PLATFORM_ID:Linux>:HAVE_FDATASYNC=1>)
  if(ciphers)
    target_compile_definitions(shepherd_sqlite
      PRIVATE
        # Two that authenticate each page: AEGIS-256 with AES instructions, ChaCha20-Poly1305 without.
        HAVE_CIPHER_AES_128_CBC=0 HAVE_CIPHER_AES_256_CBC=0 HAVE_CIPHER_SQLCIPHER=0 HAVE_CIPHER_RC4=0
        HAVE_CIPHER_ASCON128=0
      INTERFACE SHEPHERD_SQLITE_CIPHERS=1)
  else()
    message(STATUS "This SQLite has no ciphers: a memory cannot be encrypted")
  endif()
  target_compile_options(shepherd_sqlite PRIVATE $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-w>)
  target_compile_definitions(shepherd_sqlite INTERFACE "SHEPHERD_SQLITE_KIND=\"bundled\"")
  target_link_libraries(shepherd_sqlite PUBLIC Threads::Threads $<$<PLATFORM_ID:Linux>:m>)
  message(STATUS "SQLite ${version} from ${folder}")
endfunction()

function(shepherd_add_system_sqlite)
  find_path(SHEPHERD_SQLITE_INCLUDE sqlite3.h)
  find_library(SHEPHERD_SQLITE_LIBRARY NAMES libsqlite3.a sqlite3)
  if(NOT SHEPHERD_SQLITE_INCLUDE OR NOT SHEPHERD_SQLITE_LIBRARY)
    message(FATAL_ERROR
      "No SQLite to build with: no source of it could be fetched (see above), and the machine has none.\n"
      ${_sqlite_remedy})
  endif()
  shepherd_sqlite_version("${SHEPHERD_SQLITE_INCLUDE}" version)
  if(version LESS 3043000)
    message(FATAL_ERROR
      "The machine's SQLite is ${version}: 3043000 (3.43) is the oldest that can index memories.\n"
      ${_sqlite_remedy})
  endif()
  add_library(shepherd_sqlite INTERFACE)
  target_include_directories(shepherd_sqlite SYSTEM INTERFACE "${SHEPHERD_SQLITE_INCLUDE}")
  target_compile_definitions(shepherd_sqlite INTERFACE "SHEPHERD_SQLITE_KIND=\"system\"")
  target_link_libraries(shepherd_sqlite INTERFACE
    "${SHEPHERD_SQLITE_LIBRARY}" Threads::Threads ${CMAKE_DL_LIBS} $<$<PLATFORM_ID:Linux>:m>)
  if(version LESS 3051003)
    message(WARNING
      "Building with the machine's SQLite ${version} (${SHEPHERD_SQLITE_LIBRARY}): versions before 3.51.3\n"
      "can corrupt a memory database when two programs write to it at the same instant.")
  else()
    message(WARNING
      "Building with the machine's SQLite ${version} (${SHEPHERD_SQLITE_LIBRARY}), not the one Shepherd is tested with.")
  endif()
endfunction()

set(_amalgamation "")
if(NOT SHEPHERD_SQLITE STREQUAL "system")
  shepherd_find_amalgamation(_amalgamation)
  if(SHEPHERD_SQLITE MATCHES "^(bundled|plain)$" AND NOT _amalgamation)
    message(FATAL_ERROR
      "SHEPHERD_SQLITE=${SHEPHERD_SQLITE}, and no source of SQLite could be fetched (see above).\n"
      ${_sqlite_remedy})
  endif()
endif()
if(_amalgamation)
  shepherd_add_bundled_sqlite("${_amalgamation}")
else()
  shepherd_add_system_sqlite()
endif()
