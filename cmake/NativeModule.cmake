# shepherd_native_module(NAME [SOURCES file.c ...] [LIBRARIES target ...])
#   src/_native/NAME.pyx and the C files beside it become shepherd._native.NAME.
set(_native "${CMAKE_CURRENT_SOURCE_DIR}/src/_native")
file(GLOB _declarations CONFIGURE_DEPENDS "${_native}/*.pxd")

function(shepherd_native_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${name}.pyx.c")
  # Cython of this interpreter: a script on the PATH may belong to another one.
  add_custom_command(
    OUTPUT "${generated}"
    COMMAND "${Python_EXECUTABLE}" -m cython -3 --module-name "shepherd._native.${name}" -I "${_native}"
            "${_native}/${name}.pyx" -o "${generated}"
    DEPENDS "${_native}/${name}.pyx" ${_declarations}
    VERBATIM)
  list(TRANSFORM arg_SOURCES PREPEND "${_native}/")
  python_add_library(${name} MODULE WITH_SOABI "${generated}" ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${_native}")
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_VISIBILITY_PRESET hidden)
  # Scores must be the same on every machine: GCC on ARM would fuse multiply and add.
  target_compile_options(${name} PRIVATE $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-ffp-contract=off>)
  if(UNIX AND NOT APPLE)
    target_link_libraries(${name} PRIVATE m)
    # A static SQLite must not lend its symbols to CPython's own sqlite3.
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  install(TARGETS ${name} LIBRARY DESTINATION shepherd/_native)
endfunction()

install(FILES src/_native/__init__.py DESTINATION shepherd/_native)
file(GLOB _stubs CONFIGURE_DEPENDS "${_native}/*.pyi")
# Its own py.typed: an editable install leaves the one of the package in src/.
install(FILES ${_stubs} src/_native/py.typed DESTINATION shepherd/_native)
