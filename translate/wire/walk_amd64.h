// The grammar of JSON over masks, for walk256_amd64.s and walk512_amd64.s.

// NAMES checks that names are strings and that colons are behind them. R15 has where names may begin, allowed what else may
// be there: closing brackets, of empty objects, and quotes.
#define NAMES(allowed) \
	ANDNQ    R15, allowed, CX \
	ORQ      CX, R13          \
	ANDQ     AX, R15          \
	NEGQ     R12              \ // the carry is set if it was not 0
	ADCQ     R15, R15         \
	SBBQ     R12, R12         \
	ADDQ     BX, R15          \ // carries through each name to what is behind its closing quote
	SBBQ     $0, R12          \
	COLONS(CX)                \
	XORQ     R15, CX          \
	ANDNQ    CX, BX, CX       \
	ORQ      CX, R13

// NEXT finds the next bracket. The carry is set if it opens a container.
#define NEXT \
	TZCNTQ R14, AX \
	MOVQ   R9, R10 \
	BTQ    AX, DX

// TOGGLE toggles in CX what is behind a bracket, if the kind of container is another there.
#define TOGGLE \
	XORQ  R9, R10      \
	ADDQ  R10, R10     \
	ANDL  $2, R10      \
	NEGQ  R10          \
	SHLXQ AX, R10, R10 \
	XORQ  R10, CX      \
	BLSRQ R14, R14

// VISITED checks the kinds of closing brackets, and names. CX has the bytes that are in objects.
#define VISITED \
	ANDQ  CX, R15      \
	BRACKETS(R14)      \
	ANDNQ R14, DX, R14 \ // closing brackets
	XORQ  CX, R11      \
	ANDQ  R14, R11     \
	ORQ   R11, R13     \ // of another kind than the container
	QUOTES(AX)         \
	ORQ   AX, R14      \
	NAMES(R14)

// LATER appends the bits of mask, of the block at SI, to the list of what the caller checks.
#define LATER(mask) \
	MOVQ SI, CX       \
	SUBQ p+8(FP), CX  \
	MOVQ CX, (DI)     \
	MOVQ mask, 8(DI)  \
	ADDQ $16, DI

// What follows is the body of both kernels. It checks the grammar of a block while the masks are in registers: SI is the block,
// and bit i of a mask stands for its byte i.
//
//	R8   all bits if the block begins in a string
//	R9   walk.stack
//	R10  all bits if the innermost container is an object
//	R12  walk.name
//	DI   the end of walk.later
//	AX   quotes
//	BX   what is behind a byte of a string, that is a string without its opening quote
//	R13  faults
//	R14  brackets
//	R15  behind commas and {
//
// How masks are found is up to the macros of the kernel:
//
//	AHEAD         may begin with a block
//	TAKE          quotes in AX, their parity in DX; the zero flag is clear if the block is special
//	PLAIN         loads the block at SI; the zero flag is set if it is neither special nor has quotes
//	NEIGHBORS     faults in R13: tokens that may not follow the byte before; where scalars begin in R14
//	ITEMS         R15
//	FINDBRACKETS  R14; later BRACKETS, which keeps all registers
//	KINDS         opening brackets in DX; in R11 bit 5 of the bytes, which { and } have and [ and ] have not; later OPENING and CURLY
//	COLONS        colons, and other bytes in strings
//	QUOTES        quotes; SETQUOTES corrects them
//	BEYOND        in a special block, bytes beyond ASCII in AX, control characters and others in R13
//	MALFORMED     the zero flag is clear if UTF-8 is not well formed
//	BACKSLASHES   AX
//	BADESCAPES    in R15, what may not follow a backslash, and u
//	UNSPECIAL     makes up for what the macros of special blocks have changed
//	KEEP          keeps what the next call must know in the walk at BX
//
// Bytes beyond ASCII, backslashes and white space are faults outside of strings.

	MOVQ    w+0(FP), DI
	MOVQ    p+8(FP), SI
	MOVQ    n+16(FP), CX
	SHLQ    $6, CX
	LEAQ    -64(SI)(CX*1), CX
	MOVQ    CX, last-16(SP)
	MOVQ    walk_text(DI), R8
	MOVQ    walk_stack(DI), R9
	MOVQ    R9, R10
	ANDL    $1, R10
	NEGQ    R10
	MOVQ    walk_name(DI), R12
	MOVQ    walk_escaped(DI), AX
	MOVQ    AX, escaped-24(SP)
	MOVQ    walk_beyond(DI), DX
	MOVQ    DX, beyond-32(SP)
	SHRQ    $61, DX
	XORL    BX, BX
	ORQ     DX, AX
	CMOVQNE BX, CX
	MOVQ    CX, limit-8(SP)
	LEAQ    walk_later+(16*const_mostLater)(DI), CX
	MOVQ    CX, full-40(SP)
	LEAQ    walk_later(DI), DI

	CONSTANTS

load:
	MOVQ SI, CX
	AHEAD(CX)

block:
	CMPQ     SI, limit-8(SP)
	JA       past
	TAKE
	JNE      special

plain: // AX has the quotes, DX their parity
	TESTQ AX, AX
	JZ    unquoted
	XORQ  R8, DX           // in a string, from its opening quote to before its closing one
	LEAQ  (DX)(DX*1), BX
	SUBQ  R8, BX           // behind these: from behind the opening quote to the closing one
	MOVQ  DX, R8
	SARQ  $63, R8

	// All that is not a quote is outside of strings if it is not in BX.
outside:
	NEIGHBORS
	TESTQ     R14, R14
	JNZ       scalars

scalarsKept:
	ITEMS
	FINDBRACKETS
	TESTQ    R14, R14
	JNZ      brackets
	ANDQ     R10, R15
	NAMES(AX)
	TESTQ    R13, R13
	JNZ      leave
	ADDQ     $64, SI
	JMP      block

unquoted:
	TESTQ R8, R8
	JNZ   inside
	XORL  BX, BX
	JMP   outside

scalars:
	LATER(R14)
	CMPQ DI, full-40(SP)
	JB   scalarsKept
	MOVQ SI, last-16(SP)
	MOVQ $0, limit-8(SP)
	JMP  scalarsKept

brackets:
	KINDS

	// If there are only { and }, and fewer } than objects on top of the stack, they need not be visited: the innermost
	// container is an object everywhere.
	MOVQ   R9, CX
	SHRQ   $32, CX
	JNZ    visit
	ANDNQ  R14, R11, CX
	JNZ    visit
	ANDNQ   DX, BX, DX
	POPCNTQ R14, CX
	POPCNTQ DX, DX
	SUBQ    DX, CX          // how many }
	MOVQ    R9, R11
	NOTQ    R11
	TZCNTQ  R11, R11
	CMPQ    CX, R11
	JGE     revisit
	INCQ    R9
	SHLXQ   DX, R9, R9
	SHRXQ   CX, R9, R9
	DECQ    R9
	OPENING(CX)
	ANDNQ   R14, CX, R14    // closing brackets
	ORQ     AX, R14
	NAMES(R14)
	TESTQ   R13, R13
	JNZ     leave
	ADDQ    $64, SI
	JMP     block

revisit:
	OPENING(DX)

visit:
	CURLY(R11)
	MOVQ  R10, CX           // in objects
	NEXT
	JCC   shut

open:
	BTQ  AX, R11
	ADCQ R9, R9
	JCS  leave
	TOGGLE
	JZ   visited
	NEXT
	JCS  open

shut:
	SHRQ $1, R9
	CMPQ R9, $const_noContainer
	JEQ  end
	TOGGLE
	JZ   visited
	NEXT
	JCC  shut
	JMP  open

visited:
	VISITED
	TESTQ R13, R13
	JNZ   leave
	MOVQ  R9, R10
	ANDL  $1, R10
	NEGQ  R10
	ADDQ  $64, SI
	JMP   block

end:
	BLSMSKQ R14, R9        // all up to the end
	LEAQ    1(SI)(AX*1), R10
	SUBQ    p+8(FP), R10
	VISITED
	ANDQ    R9, R13
	JNZ     leave
	MOVQ    R10, ret+24(FP)
	MOVQ    w+0(FP), BX
	MOVQ    $const_noContainer, walk_stack(BX)
	JMP     return

inside: // a string, with the whole block
	ADDQ      $64, SI
	CMPQ      SI, limit-8(SP)
	JA        past
	PLAIN
	JEQ       inside
	JMP       load

past: // the limit, which is 0 if a character or an escape goes on in the next block
	MOVQ last-16(SP), AX
	CMPQ SI, AX
	JA   done
	MOVQ AX, limit-8(SP)
	MOVQ SI, CX
	AHEAD(CX)
	TAKE

special: // control characters, backslashes and bytes beyond ASCII, here or at the end of the block before
	BEYOND
	ANDNQ      R13, AX, R13
	TESTQ      R13, R13       // control characters
	JNZ        leave
	MOVQ       beyond-32(SP), BX
	MOVQ       AX, beyond-32(SP)
	ORQ        AX, BX
	JZ         ascii
	SHRQ       $61, AX
	JZ         whole
	MOVQ       $0, limit-8(SP)

whole: // Well-formed UTF-8, as in FAULTS.
	MALFORMED
	JNE       leave

ascii:
	BACKSLASHES
	MOVQ  escaped-24(SP), BX
	MOVQ  AX, CX
	ORQ   BX, CX
	JZ    quotes

	// As in textBlocks, but the first byte may be escaped.
	ANDNQ     AX, BX, R14
	LEAQ      (R14)(R14*1), R15
	MOVQ      $0xAAAAAAAAAAAAAAAA, CX
	ORQ       CX, R15
	SUBQ      R14, R15
	XORQ      CX, R15
	MOVQ      AX, R14
	ORQ       BX, R14
	XORQ      R15, R14        // escaped bytes
	ANDQ      AX, R15
	SHRQ      $63, R15
	MOVQ      R15, escaped-24(SP)
	JZ        unescaped
	MOVQ      $0, limit-8(SP)

unescaped:
	QUOTES(AX)
	ANDNQ     AX, R14, AX
	SETQUOTES(AX)
	BADESCAPES
	ANDQ      R14, R15        // that are u or a fault
	JZ        quotes
	LATER(R15)
	CMPQ      DI, full-40(SP)
	JB        quotes
	MOVQ      SI, last-16(SP)
	MOVQ      $0, limit-8(SP)

quotes:
	QUOTES(AX)
	MOVQ  AX, DX
	PARITY(DX)
	UNSPECIAL
	JMP   plain

leave:
	MOVQ $-1, ret+24(FP)
	VZEROUPPER
	RET

done:
	SUBQ p+8(FP), SI
	MOVQ SI, ret+24(FP)
	MOVQ w+0(FP), BX
	MOVQ R8, walk_text(BX)
	MOVQ R9, walk_stack(BX)
	MOVQ R12, walk_name(BX)
	MOVQ escaped-24(SP), AX
	MOVQ AX, walk_escaped(BX)
	MOVQ beyond-32(SP), AX
	MOVQ AX, walk_beyond(BX)
	KEEP

return:
	LEAQ walk_later(BX), AX
	SUBQ AX, DI
	SHRQ $4, DI
	MOVQ DI, walk_laters(BX)
	VZEROUPPER
	RET
