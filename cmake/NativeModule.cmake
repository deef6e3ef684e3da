# shepherd_native_module(NAME [SOURCES file.c ...] [LIBRARIES target ...])
#   src/_native/NAME.pyx and the C files beside it become shepherd._native.NAME.
find_program(CYTHON NAMES cython cython3 REQUIRED)
# A cython script from another interpreter would pick another Cython; ask this one.
set(_cython "${Python_EXECUTABLE}" -m cython)

function(shepherd_native_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(dir "${CMAKE_CURRENT_SOURCE_DIR}/src/_native")
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${name}.pyx.c")
  file(GLOB declarations CONFIGURE_DEPENDS "${dir}/*.pxd")
  add_custom_command(
    OUTPUT "${generated}"
    COMMAND ${_cython} -3 --module-name "shepherd._native.${name}" -I "${dir}"
            "${dir}/${name}.pyx" -o "${generated}"
    DEPENDS "${dir}/${name}.pyx" ${declarations}
    VERBATIM)
  list(TRANSFORM arg_SOURCES PREPEND "${dir}/")
  python_add_library(${name} MODULE WITH_SOABI "${generated}" ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${dir}")
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_VISIBILITY_PRESET hidden)
  target_compile_options(${name} PRIVATE $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-O3;-fno-semantic-interposition>)
  if(UNIX AND NOT APPLE)
    find_library(_libm m)
    target_link_libraries(${name} PRIVATE m)
    # A static SQLite must not lend its symbols to CPython's own sqlite3.
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  install(TARGETS ${name} LIBRARY DESTINATION shepherd/_native)
endfunction()

install(FILES src/_native/__init__.py DESTINATION shepherd/_native)
file(GLOB _stubs CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/_native/*.pyi")
install(FILES ${_stubs} DESTINATION shepherd/_native)
