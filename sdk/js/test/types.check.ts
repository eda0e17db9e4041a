/** What is shipped as types is what the code does: the type checker compares the two, nothing here runs. */
import type * as declared from "../index.js";
import type * as declaredForNode from "../index.node.js";
import type * as declaredForSealing from "../index.sealed.js";
import * as code from "../keyveil.js";
import * as codeForNode from "../node.js";
import * as codeForSealing from "../sealed.js";

// Whatever is declared is there, takes what it says and gives what it says.
code satisfies typeof declared;
codeForNode satisfies typeof declaredForNode;
codeForSealing satisfies typeof declaredForSealing;

// And nothing is there that is not declared.
type Undeclared = Exclude<keyof typeof code, keyof typeof declared>;
type UndeclaredForNode = Exclude<keyof typeof codeForNode, keyof typeof declaredForNode>;
null as unknown as Undeclared satisfies never;
null as unknown as UndeclaredForNode satisfies never;
null as unknown as Exclude<keyof typeof codeForSealing, keyof typeof declaredForSealing> satisfies never;

// Every code has its sentence, and no sentence is for an unknown code.
null as unknown as Exclude<keyof typeof code.SENTENCES, declared.Code> satisfies never;

// An object that a device makes is the declared one, methods and all.
null as unknown as code.Device satisfies declared.Device;
