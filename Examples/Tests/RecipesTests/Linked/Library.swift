// The linked files are of the library, so that they do not import it.
@_exported import FluxCore
